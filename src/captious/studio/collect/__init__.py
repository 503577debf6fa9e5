"""Data collection: the plan and tasks of a study, the kinds of task, the log of answers, and the pages of raters."""
