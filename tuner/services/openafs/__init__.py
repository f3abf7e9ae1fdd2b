"""OpenAFS: the fileserver and the cache managers of its clients, on hosts or in a private cell."""
