"""Contrastive n-grams: which words make a style, and the model behind OnlyStyle and StyleCIDEr."""
