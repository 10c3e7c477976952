"""What every page is made of: escaped markup, charts as SVG, and a frame with a strict policy.

Pages are functions from data to text: no template language, so types are checked and everything
that is not markup already is escaped.
"""
