//! What an upstream said, and how it is made fit to pass on.
