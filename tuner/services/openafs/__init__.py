"""OpenAFS: the fileserver and its clients' cache managers, on hosts or in a private cell."""
