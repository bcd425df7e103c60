//! The SQLite file: records, and the slots of calls in flight.
