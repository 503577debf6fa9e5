"""Texts judged by the pictures they paint (ImaginE): painters, the picture cache, similarities, analyses."""
