"""What an encoder or a metric can and cannot tell: specificity, retrieval, hubness, classes, order, pairs."""
