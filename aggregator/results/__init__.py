"""Results that know their law: noised values to calculate with, each with an interval that holds."""
