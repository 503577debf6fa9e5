"""What trains an encoder: contrast, the LongCLIP stage, and specificity (SPECS)."""
