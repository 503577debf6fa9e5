"""Raters against each other: do people agree, and how well could a metric agree with them at best."""
