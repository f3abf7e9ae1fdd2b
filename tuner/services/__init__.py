"""The services that fstune can tune: the interface of a kind, and the kinds, a folder each."""
