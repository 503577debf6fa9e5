"""A study that people answer: its plan and tasks, the kinds of task, the log of answers, and the pages of raters."""
