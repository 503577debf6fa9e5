"""The owner's side of a study: progress, raters, metric agreement, exports and simulated raters."""
