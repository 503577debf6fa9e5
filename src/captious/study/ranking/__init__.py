"""Systems by people's ratings: which one people prefer, with tests between systems."""
