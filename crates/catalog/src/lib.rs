//! The listed tools: resolve, search, describe.
