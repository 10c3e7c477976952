"""What a decision needs: an epsilon, its error, what releases cost together, text and sections.

It builds on `protocol`, and nothing that serves a task may import it.
"""
