//! A streaming JSON scanner that reports spans and never recurses or copies.
