"""Five kinds of task: ratings, ranking, pairs, yes/no lists, labels. One file each, behind the contract of `Kind`."""
