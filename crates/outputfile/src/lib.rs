//! Writes files beneath allowed roots and nowhere else.
