"""The page on which a survey is answered: one file that splits and seals in the browser."""
