//! The one place where test secrets come from. None stands whole in a file: each is put together at run time.

/// A made-up access token in the shape of a code host's.
pub fn token() -> String {
    ["ghp", "_", "A1b2C3d4E5f6", "G7h8I9j0K1l2", "M3n4O5p6Q7r8"].concat()
}

/// A made-up private key block.
pub fn private_key() -> String {
    let line = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2";
    let label = ["PRIVATE", "KEY"].join(" ");
    format!("-----{} {label}-----\n{line}\n{line}\n-----{} {label}-----", "BEGIN", "END")
}
