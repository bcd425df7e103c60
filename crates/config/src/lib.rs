//! The configuration file: what is written, what it means, and one table of every key.
