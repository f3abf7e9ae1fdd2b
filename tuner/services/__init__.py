"""The services that fstune can tune: the interface of a kind, and one folder for each kind."""
