//! Paths as one list of names, of which on Windows the first is the volume. Pure functions of (platform, path).

use crate::name::{Platform, Spelling, is_separator, parts, windows_volume};

/// The volume that a path as one list of names begins with (none on Unix), and the names below it.
pub(crate) fn split_whole(platform: Platform, names: &[String]) -> (&str, &[String]) {
    match names.split_first() {
        Some((volume, names)) if platform == Platform::Windows => (volume, names),
        _ => ("", names),
    }
}

/// The one list of names of an absolute path that [`joined`](crate::name::joined) made.
pub(crate) fn parted(platform: Platform, text: &str) -> Vec<String> {
    let (volume, rest) = match platform {
        Platform::Windows => windows_volume(text).unwrap_or_default(),
        Platform::Linux | Platform::MacOs => (String::new(), text.to_owned()),
    };
    Spelling { volume, names: parts(platform, &rest) }.whole()
}

/// Where the text of a link leads: from the top of a volume (`None`: that of the link itself), or from its directory.
pub(crate) fn link_target(platform: Platform, text: &str) -> (Start, Vec<String>) {
    match (platform, windows_volume(text)) {
        (Platform::Windows, Ok((volume, rest))) => (Start::Top(Some(volume)), parts(platform, &rest)),
        _ if text.starts_with(|c| is_separator(platform, c)) => (Start::Top(None), parts(platform, text)),
        _ => (Start::Here, parts(platform, text)),
    }
}

/// From where a link leads on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Start {
    Here,
    Top(Option<String>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::joined;

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_path_is_the_same_after_it_was_taken_apart_and_joined() {
        let paths = [
            (Platform::Linux, "/", &[][..]),
            (Platform::MacOs, "/a/b c", &["a", "b c"]),
            (Platform::Windows, r"C:\", &["C:"]),
            (Platform::Windows, r"C:\a\b c", &["C:", "a", "b c"]),
            (Platform::Windows, r"\\HOST\SHARE\a", &[r"\\HOST\SHARE", "a"]),
            (Platform::Windows, r"\\?\C:\a", &[r"\\?\C:", "a"]),
            (Platform::Windows, r"\\?\UNC\HOST\SHARE\a", &[r"\\?\UNC\HOST\SHARE", "a"]),
        ];
        for (platform, path, expected) in paths {
            let whole = parted(platform, path);
            assert_eq!(whole, names(expected), "{path}");
            let (volume, below) = split_whole(platform, &whole);
            assert_eq!(joined(platform, volume, below), path);
        }
    }

    #[test]
    fn links_lead_on_from_where_they_are_or_from_a_top() {
        let leads = |platform, text| link_target(platform, text);
        for platform in [Platform::Linux, Platform::MacOs] {
            assert_eq!(leads(platform, "/a/./b"), (Start::Top(None), names(&["a", "b"])));
            assert_eq!(leads(platform, "../b"), (Start::Here, names(&["..", "b"])));
            assert_eq!(leads(platform, r"C:\a"), (Start::Here, names(&[r"C:\a"])), "an ordinary name");
            assert_eq!(leads(platform, r"\\h\s\a"), (Start::Here, names(&[r"\\h\s\a"])));
        }
        let windows = |text| leads(Platform::Windows, text);
        assert_eq!(windows(r"d:\a\b"), (Start::Top(Some("D:".into())), names(&["a", "b"])));
        assert_eq!(windows(r"\a"), (Start::Top(None), names(&["a"])));
        assert_eq!(windows(r"..\b"), (Start::Here, names(&["..", "b"])));
        let mounted = r"\\?\VOLUME{0-1}";
        assert_eq!(windows(r"\\?\Volume{0-1}\b"), (Start::Top(Some(mounted.into())), names(&["b"])));
    }
}
