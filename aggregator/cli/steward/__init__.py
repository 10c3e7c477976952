"""Commands of stewards and auditors: plans, surveys, audits."""
