"""How databases of earlier versions become what ``tables`` says, run by Alembic.

A change of the tables needs a new file in ``versions`` and its number in ``tables.REVISION``. A
file that has been released is never changed, and it names no table of ours: those move on.
"""
