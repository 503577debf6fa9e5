"""Images and texts to vectors: CLIP-family models behind one protocol, and the cache of what they gave."""
