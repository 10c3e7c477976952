"""What an operator looks at and does: lists of jobs, progress, interventions, keys wrapped anew."""
