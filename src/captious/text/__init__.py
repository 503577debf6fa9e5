"""From captions to tokens, n-grams and tables."""
