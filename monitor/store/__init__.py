"""The SQL store: schema, queries, migrations; SQLite and PostgreSQL behind one interface."""
