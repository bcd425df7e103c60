//! Name rules of each platform: pure functions of (platform, path) that never touch a file system.
//!
//! The platform is a value, so that the rules of every platform are tested on every platform.

use std::fmt::Write as _;

use unicode_normalization::UnicodeNormalization as _;

use crate::error::shown;

/// The longest path that is taken, in bytes of UTF-8.
pub const MAX_PATH_BYTES: usize = 4096;
/// The longest component that is taken, in bytes of UTF-8.
pub const MAX_NAME_BYTES: usize = 255;
/// How many directories one save may make.
pub const MAX_NEW_DIRECTORIES: usize = 32;
/// Every temporary file of ours begins so; no target may.
pub const TEMPORARY_PREFIX: &str = ".mcpproxy-";

/// Whose name rules apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// Any byte but `/` and NUL, names differ by case.
    Linux,
    /// Names are compared after normalisation and case folding.
    MacOs,
    /// Drives, device names, two separators, case folding.
    Windows,
}

/// An absolute path taken apart: `.` and doubled separators are gone, `..` never gets this far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spelling {
    /// Empty on Unix; `C:`, `\\HOST\SHARE`, `\\?\C:` … on Windows, in upper case.
    pub volume: String,
    /// The components below the volume, in order.
    pub names: Vec<String>,
}

impl Spelling {
    /// The path as one list of names. On Windows the first is the volume.
    #[must_use]
    pub fn whole(&self) -> Vec<String> {
        let volume = (!self.volume.is_empty()).then(|| self.volume.clone());
        volume.into_iter().chain(self.names.iter().cloned()).collect()
    }

    /// The path as text, with the separator of the platform.
    #[must_use]
    pub fn text(&self, platform: Platform) -> String {
        joined(platform, &self.volume, &self.names)
    }
}

/// Why a path is refused for its spelling alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameProblem {
    /// Nothing but white space.
    #[error("is empty: give the absolute path of the file to make")]
    Empty,
    /// Not absolute. `~`, `$NAME` and URLs are not expanded.
    #[error(
        "is not absolute: give a full path, beginning at the top of the file system (`~`, variables and URLs are not expanded)"
    )]
    Relative,
    /// `C:name`, which means a place that depends on the process.
    #[error("is relative to the current directory of a drive: write a separator after the colon")]
    DriveRelative,
    /// A volume on which no root lies.
    #[error("is on the volume {}, on which no root lies: use a path beneath a root", shown(.0))]
    Volume(String),
    /// A character that deceives a reader or cuts a string.
    #[error(
        "holds the character U+{:04X}, and control, bidirectional and invisible characters are not taken: leave it out",
        u32::from(*.0)
    )]
    Character(char),
    /// A character that Windows does not have in names.
    #[error("holds {0:?}, which Windows does not take in a name: leave it out")]
    WindowsCharacter(char),
    /// A `..` component. It is refused and not cleaned, because cleaned text and the kernel disagree.
    #[error("holds a `..` component: write the path without it")]
    DotDot,
    /// Ends in a separator or in `.`, so it names a directory.
    #[error("ends in a separator, so it names a directory: add the name of the file")]
    TrailingSeparator,
    /// Names the root and nothing in it.
    #[error("names a directory that may be written into, not a file: add the name of the file")]
    NotAFile,
    /// One component is too long.
    #[error("holds a name of {0} bytes, and {MAX_NAME_BYTES} are the most: shorten it")]
    NameTooLong(usize),
    /// The path is too long.
    #[error("is {0} bytes long, and {MAX_PATH_BYTES} are the most: shorten it")]
    PathTooLong(usize),
    /// More new directories than one save may make.
    #[error("needs {0} new directories, and one save makes {MAX_NEW_DIRECTORIES} at the most: use fewer")]
    TooManyDirectories(usize),
    /// Begins with a dot below the root: other programs run such files on sight.
    #[error(
        "holds the hidden name {0:?}: choose a name that does not begin with a dot, or set \"tool_output_allow_hidden\": true"
    )]
    Hidden(String),
    /// Begins as our temporary files do.
    #[error(
        "holds the name {0:?}, and names that begin with {TEMPORARY_PREFIX} are ours: choose another name"
    )]
    Temporary(String),
    /// A device of Windows, whatever the extension.
    #[error("holds {0:?}, which is a device on Windows: choose another name")]
    Device(String),
    /// Windows drops these at the end of a name.
    #[error("holds {0:?}, and Windows drops a dot or a space at the end of a name: choose another name")]
    DotOrSpaceAtEnd(String),
    /// Spelled as Windows shortens names, so it may stand for a file of another name.
    #[error(
        "holds {0:?}, which may be the short form of another name on Windows: choose a name without `~` and a digit"
    )]
    ShortName(String),
    /// A root that is a whole file system or drive.
    #[error("is the top of a file system: name a directory in it")]
    WholeVolume,
    /// Not valid Unicode.
    #[error("is not valid Unicode: rename it")]
    NotUnicode,
}

impl NameProblem {
    /// Whether the name is one that is kept for somebody else (ours, or a device).
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        matches!(self, Self::Temporary(_) | Self::Device(_))
    }
}

/// Takes a configured root apart.
///
/// # Errors
/// Relative, `..`, a whole volume, a character or a length that no path beneath it could have.
pub fn parse_root(platform: Platform, text: &str) -> Result<Spelling, NameProblem> {
    let root = parse(platform, text)?;
    if root.names.is_empty() {
        return Err(NameProblem::WholeVolume);
    }
    let device = root.volume.starts_with(r"\\.\") || root.volume.starts_with(r"\??\");
    if device || root.volume.contains("GLOBALROOT") {
        return Err(NameProblem::Volume(root.volume));
    }
    Ok(root)
}

/// Takes the path of a target apart. On Windows the volume must be a drive or that of a root.
///
/// # Errors
/// Everything that is wrong with the spelling, wherever the path leads.
pub fn parse_target(platform: Platform, text: &str, roots: &[Spelling]) -> Result<Spelling, NameProblem> {
    let target = parse(platform, text)?;
    let drive = target.volume.is_empty() || target.volume.len() == 2;
    if !drive && !roots.iter().any(|root| root.volume == target.volume) {
        return Err(NameProblem::Volume(target.volume));
    }
    let last = text.rsplit(|c| is_separator(platform, c)).next().unwrap_or_default();
    if target.names.is_empty() {
        return Err(NameProblem::NotAFile);
    }
    if last.is_empty() || last == "." {
        return Err(NameProblem::TrailingSeparator);
    }
    Ok(target)
}

/// Checks the components of a target below its root.
///
/// # Errors
/// No component at all, a hidden one (unless allowed), one that begins as our temporary files do.
pub fn check_below(names: &[String], allow_hidden: bool) -> Result<(), NameProblem> {
    if names.is_empty() {
        return Err(NameProblem::NotAFile);
    }
    for name in names {
        let head = name.get(..TEMPORARY_PREFIX.len());
        if head.is_some_and(|head| head.eq_ignore_ascii_case(TEMPORARY_PREFIX)) {
            return Err(NameProblem::Temporary(name.clone()));
        }
        if name.starts_with('.') && !allow_hidden {
            return Err(NameProblem::Hidden(name.clone()));
        }
    }
    Ok(())
}

/// Checks that no component of a target below its root could be the short form of another: `GIT~1` is `.git`.
///
/// # Errors
/// On Windows, a name of at most eight and three characters with a `~` and digits at the end of its first part.
pub fn check_short(platform: Platform, names: &[String]) -> Result<(), NameProblem> {
    match names.iter().find(|name| platform == Platform::Windows && is_short(name)) {
        Some(name) => Err(NameProblem::ShortName(name.clone())),
        None => Ok(()),
    }
}

/// How two directories lie to each other, by their names alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// The same names.
    Equal,
    /// The first holds the second.
    Contains,
    /// The first lies in the second.
    LiesIn,
    /// Neither.
    Apart,
}

/// Compares two directories by component.
#[must_use]
pub fn relation(platform: Platform, first: &Spelling, second: &Spelling) -> Relation {
    if fold(platform, &first.volume) != fold(platform, &second.volume) {
        return Relation::Apart;
    }
    relation_of_names(platform, &first.names, &second.names)
}

/// Compares two lists of components on one volume.
#[must_use]
pub fn relation_of_names(platform: Platform, first: &[String], second: &[String]) -> Relation {
    let alike = first.iter().zip(second).all(|(a, b)| same_name(platform, a, b));
    match first.len().cmp(&second.len()) {
        _ if !alike => Relation::Apart,
        std::cmp::Ordering::Equal => Relation::Equal,
        std::cmp::Ordering::Less => Relation::Contains,
        std::cmp::Ordering::Greater => Relation::LiesIn,
    }
}

/// The name as the platform compares it: as it is on Linux, normalised and folded elsewhere.
#[must_use]
pub fn fold(platform: Platform, name: &str) -> String {
    match platform {
        Platform::Linux => name.to_owned(),
        Platform::MacOs | Platform::Windows => name.nfc().map(fold_char).collect::<String>().nfc().collect(),
    }
}

/// Whether a file of this name is a temporary of ours: the prefix, 32 hexadecimal digits, `.tmp`.
#[must_use]
pub fn is_temporary(name: &str) -> bool {
    name.strip_prefix(TEMPORARY_PREFIX)
        .and_then(|rest| rest.strip_suffix(".tmp"))
        .is_some_and(|hex| hex.len() == 32 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

/// The temporary name that belongs to 128 random bits.
#[must_use]
pub fn temporary(random: [u8; 16]) -> String {
    let mut name = String::from(TEMPORARY_PREFIX);
    for byte in random {
        // Writing to a String does not fail.
        let _ = write!(name, "{byte:02x}");
    }
    name.push_str(".tmp");
    name
}

/// Joins components to a path of the platform.
pub(crate) fn joined(platform: Platform, volume: &str, names: &[String]) -> String {
    let separator = if platform == Platform::Windows { '\\' } else { '/' };
    let mut text = volume.to_owned();
    for name in names {
        text.push(separator);
        text.push_str(name);
    }
    if names.is_empty() {
        text.push(separator);
    }
    text
}

/// Whether a reader could be deceived by this character, or a string cut by it.
pub(crate) fn is_forbidden(c: char) -> bool {
    matches!(c,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}'          // C0, DEL, C1
        | '\u{61c}' | '\u{200e}' | '\u{200f}'             // marks of direction
        | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' // embeddings, overrides, isolates
        | '\u{2028}' | '\u{2029}'                         // line and paragraph separator
        | '\u{ad}' | '\u{34f}' | '\u{180e}' | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}') // of no width
}

fn parse(platform: Platform, text: &str) -> Result<Spelling, NameProblem> {
    if text.trim().is_empty() {
        return Err(NameProblem::Empty);
    }
    // On Windows the volume comes first: looking at some volumes already sends credentials away.
    let (volume, rest) = match platform {
        Platform::Windows => windows_volume(text)?,
        Platform::Linux | Platform::MacOs => {
            (String::new(), text.strip_prefix('/').ok_or(NameProblem::Relative)?.to_owned())
        }
    };
    if let Some(c) = text.chars().find(|c| is_forbidden(*c)) {
        return Err(NameProblem::Character(c));
    }
    if text.len() > MAX_PATH_BYTES {
        return Err(NameProblem::PathTooLong(text.len()));
    }
    let names = parts(platform, &rest);
    names.iter().try_for_each(|name| check_name(platform, name))?;
    Ok(Spelling { volume, names })
}

/// The components of a path below its volume; `.` and doubled separators are gone.
pub(crate) fn parts(platform: Platform, text: &str) -> Vec<String> {
    let names = text.split(|c| is_separator(platform, c)).filter(|name| !name.is_empty() && *name != ".");
    names.map(str::to_owned).collect()
}

fn check_name(platform: Platform, name: &str) -> Result<(), NameProblem> {
    if name == ".." {
        return Err(NameProblem::DotDot);
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(NameProblem::NameTooLong(name.len()));
    }
    if platform == Platform::Windows { check_windows_name(name) } else { Ok(()) }
}

fn check_windows_name(name: &str) -> Result<(), NameProblem> {
    if let Some(c) = name.chars().find(|c| matches!(c, ':' | '<' | '>' | '"' | '|' | '?' | '*')) {
        return Err(NameProblem::WindowsCharacter(c));
    }
    if is_device(name) {
        return Err(NameProblem::Device(name.to_owned()));
    }
    if name.ends_with(['.', ' ']) {
        return Err(NameProblem::DotOrSpaceAtEnd(name.to_owned()));
    }
    Ok(())
}

/// The part before the first dot counts, without the spaces at its end, whatever the case.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_uppercase();
    let numbered = |port: &str| {
        stem.strip_prefix(port).is_some_and(|n| {
            matches!(n, "¹" | "²" | "³") || (n.len() == 1 && n.as_bytes()[0].is_ascii_digit())
        })
    };
    matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$" | "CLOCK$")
        || numbered("COM")
        || numbered("LPT")
}

/// As Windows makes short names: `ABCDEF~1`, `A~123456.TXT`.
fn is_short(name: &str) -> bool {
    let (stem, extension) = name.split_once('.').unwrap_or((name, ""));
    let short = stem.chars().count() <= 8 && extension.chars().count() <= 3 && !extension.contains('.');
    let number = stem.rsplit_once('~').map(|(_, number)| number).unwrap_or_default();
    short && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

pub(crate) fn is_separator(platform: Platform, c: char) -> bool {
    c == '/' || (platform == Platform::Windows && c == '\\')
}

/// Splits a Windows path into its volume, in upper case, and the rest.
pub(crate) fn windows_volume(text: &str) -> Result<(String, String), NameProblem> {
    let text = text.replace('/', r"\");
    for prefix in [r"\\?\", r"\\.\", r"\??\"] {
        if let Some(rest) = text.strip_prefix(prefix) {
            let parts = if rest.to_uppercase().starts_with(r"UNC\") { 3 } else { 1 };
            return Ok(split_volume(prefix, rest, parts));
        }
    }
    if let Some(rest) = text.strip_prefix(r"\\") {
        return Ok(split_volume(r"\\", rest, 2));
    }
    let mut chars = text.chars();
    match (chars.next(), chars.next(), chars.next()) {
        (Some(drive), Some(':'), Some('\\')) if drive.is_ascii_alphabetic() => {
            Ok((format!("{}:", drive.to_ascii_uppercase()), text[3..].to_owned()))
        }
        (Some(drive), Some(':'), _) if drive.is_ascii_alphabetic() => Err(NameProblem::DriveRelative),
        _ => Err(NameProblem::Relative),
    }
}

fn split_volume(prefix: &str, rest: &str, parts: usize) -> (String, String) {
    let end = rest.match_indices('\\').nth(parts - 1).map_or(rest.len(), |(at, _)| at);
    (format!("{prefix}{}", &rest[..end]).to_uppercase(), rest[end..].to_owned())
}

fn same_name(platform: Platform, first: &str, second: &str) -> bool {
    first == second || (platform != Platform::Linux && fold(platform, first) == fold(platform, second))
}

/// Simple case folding: one character to one character, so `ß` and `ﬁ` stay what they are.
fn fold_char(c: char) -> char {
    let mut upper = c.to_uppercase();
    let upper = match (upper.next(), upper.next()) {
        (Some(one), None) => one,
        _ => c,
    };
    let mut lower = upper.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(one), None) => one,
        _ => upper,
    }
}
