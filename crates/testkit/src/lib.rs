//! Test-only: a scripted upstream, a raw client and temporary homes.
