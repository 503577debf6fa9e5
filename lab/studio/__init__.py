"""A studio from outside: server processes, and raters who use them over HTTP as a browser does."""
