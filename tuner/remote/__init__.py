"""Client of a remote fstune server, over HTTP. Nothing here reads or writes a database."""
