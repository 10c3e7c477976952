"""What an operator sees and does: job lists, progress, interventions, re-encryption."""
