"""The parts of a result: estimates and their errors, tables, and results joined from parts."""
