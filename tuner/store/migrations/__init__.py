"""Migrations of databases of earlier versions to the current ``tables``, run by Alembic.

A change of the tables needs a new file in ``versions`` and its number in ``tables.REVISION``. A
released file is never changed, and it does not refer to our table definitions: those keep changing.
"""
