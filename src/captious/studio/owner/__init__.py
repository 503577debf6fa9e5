"""What the owner of a study sees and does: progress, raters, agreement of metrics, exports, rehearsals."""
