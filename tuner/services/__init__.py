"""The services that fstune can tune: what is asked of each kind, and the kinds, a folder each."""
