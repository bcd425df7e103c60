//! Windows: where a reparse point leads. Pure, so that it is tested on every platform.

/// A symbolic link.
const SYMLINK: u32 = 0xa000_000c;
/// A junction, or a volume that is mounted in a directory.
const MOUNT_POINT: u32 = 0xa000_0003;
/// Bytes before the fields that depend on the tag.
const HEADER: usize = 8;

/// Where a reparse point leads, as the text of a link: relative, or from the top of a volume.
///
/// Only local volumes are led to. That a path on another machine is looked at already sends credentials there.
pub(super) fn link_text(data: &[u8]) -> Result<String, &'static str> {
    let number = |at: usize| u16::from_le_bytes([byte(data, at), byte(data, at + 1)]);
    let long = |at: usize| u32::from(number(at)) | (u32::from(number(at + 2)) << 16);
    let (names, relative) = match long(0) {
        SYMLINK => (HEADER + 12, long(HEADER + 8) & 1 == 1),
        MOUNT_POINT => (HEADER + 8, false),
        _ => return Err("it is a reparse point of another kind than a link, and not followed"),
    };
    let start = names + usize::from(number(HEADER));
    let end = start + usize::from(number(HEADER + 2));
    let bytes = data.get(start..end).ok_or("its reparse point is cut off")?;
    let (units, []) = bytes.as_chunks::<2>() else { return Err("its reparse point is cut off") };
    let units: Vec<u16> = units.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
    let text = String::from_utf16(&units).map_err(|_| "it leads to a name that is not valid Unicode")?;
    match relative {
        false => absolute(&text),
        true if text.starts_with(r"\\") || text.contains([':', '/']) => {
            Err("it leads to a path of a form that is not followed")
        }
        true => Ok(text),
    }
}

/// From the form of the kernel, `\??\C:\…`, to that of programs.
fn absolute(text: &str) -> Result<String, &'static str> {
    let inner = text.strip_prefix(r"\??\").ok_or("it leads to a path of a form that is not followed")?;
    let mut start = inner.chars();
    let drive = (start.next(), start.next(), start.next());
    if matches!(drive, (Some(letter), Some(':'), Some('\\')) if letter.is_ascii_alphabetic()) {
        return Ok(inner.to_owned());
    }
    if inner.get(..7).is_some_and(|head| head.eq_ignore_ascii_case("Volume{")) {
        return Ok(format!(r"\\?\{inner}"));
    }
    Err("it leads to another machine or a device, and is not followed")
}

fn byte(data: &[u8], at: usize) -> u8 {
    data.get(at).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The buffer of a reparse point: tag, flags (only of a symbolic link), and the name that counts.
    fn buffer(tag: u32, flags: u32, name: &str) -> Vec<u8> {
        let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        // A name to show comes first here, as it may.
        let shown: Vec<u8> = "shown".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut data = tag.to_le_bytes().to_vec();
        data.extend([0; 4]);
        for number in [shown.len(), name.len(), 0, shown.len()] {
            data.extend(u16::try_from(number).unwrap().to_le_bytes());
        }
        if tag == SYMLINK {
            data.extend(flags.to_le_bytes());
        }
        data.extend(shown);
        data.extend(name);
        data
    }

    #[test]
    fn links_and_junctions_lead_to_local_volumes() {
        let good = [
            (buffer(SYMLINK, 1, r"..\x\y"), r"..\x\y"),
            (buffer(SYMLINK, 1, r"\x"), r"\x"),
            (buffer(SYMLINK, 0, r"\??\C:\a b\ü"), r"C:\a b\ü"),
            (buffer(MOUNT_POINT, 0, r"\??\d:\x"), r"d:\x"),
            (buffer(MOUNT_POINT, 0, r"\??\Volume{01234567-89ab}\"), r"\\?\Volume{01234567-89ab}\"),
        ];
        for (data, text) in good {
            assert_eq!(link_text(&data).as_deref(), Ok(text));
        }
    }

    #[test]
    fn nothing_else_is_followed() {
        let bad = [
            buffer(SYMLINK, 0, r"\??\UNC\host\share\x"),
            buffer(SYMLINK, 0, r"\\host\share\x"),
            buffer(SYMLINK, 1, r"\\host\share\x"),
            buffer(SYMLINK, 1, "//host/share/x"),
            buffer(SYMLINK, 1, r"C:\x"),
            buffer(MOUNT_POINT, 0, r"\??\UNC\host\share\x"),
            buffer(SYMLINK, 0, r"\Device\HarddiskVolume1\x"),
            buffer(SYMLINK, 0, r"\??\GLOBALROOT\Device\x"),
            buffer(SYMLINK, 0, r"\??\pipe\x"),
            buffer(SYMLINK, 0, "C:x"),
            buffer(SYMLINK, 0, ""),
            buffer(0xa000_001d, 0, "a link of another system"),
            buffer(0x9000_001a, 0, "a file in the cloud"),
            Vec::new(),
            vec![0x0c, 0, 0, 0xa0],
        ];
        for data in bad {
            assert!(link_text(&data).is_err(), "{data:?}");
        }
        let whole = buffer(SYMLINK, 0, r"\??\C:\out");
        for length in 0..whole.len() {
            assert!(link_text(&whole[..length]).is_err(), "cut to {length} bytes");
        }
    }
}
