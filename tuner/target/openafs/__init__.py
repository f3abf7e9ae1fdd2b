"""OpenAFS as a target: the fileserver process and the cache managers of its clients."""
