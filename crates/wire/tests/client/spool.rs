//! Spools: what goes in comes out, nothing is left behind, and the bound holds.

use std::io::Read;

use wire::spool::{MEMORY_BYTES, SpoolError};

use crate::common::{MIB, bytes, place};

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 31 + i / 251) % 256).try_into().unwrap()).collect()
}

#[test]
fn bodies_of_every_size_come_back_whole_and_in_slices() {
    let place = place(1 << 30);
    let chunk = 64 * 1024;
    for len in [0, 1, chunk, MEMORY_BYTES, MEMORY_BYTES + 1, 17 * chunk, 17 * chunk + 5, 3 * MIB + 7] {
        let data = pattern(len);
        for piece in [len.max(1), 100_003] {
            let mut writer = place.spools.writer();
            for part in data.chunks(piece) {
                writer.push(part).unwrap();
            }
            assert_eq!(place.spools.used_bytes(), len as u64);
            let body = writer.finish().unwrap();
            assert_eq!(body.len(), len as u64);
            assert_eq!(body.as_bytes().is_some(), len <= MEMORY_BYTES, "{len}");
            assert!(bytes(&body) == data, "{len} bytes in pieces of {piece}");
            for (start, end) in
                [(0, len), (len / 3, len / 2), (len / 2, len), (len, len), (chunk - 1, chunk + 2)]
            {
                let (start, end) = (start.min(len), end.min(len));
                let slice = body.slice(start as u64, end as u64);
                assert!(bytes(&slice) == data[start..end], "{start}..{end} of {len}");
                let inner = slice.slice(1, slice.len() + 9);
                assert!(bytes(&inner) == data[(start + 1).min(end)..end], "a slice of a slice");
            }
        }
        assert_eq!(place.spools.used_bytes(), 0, "everything is given back");
    }
}

#[test]
fn read_at_reads_anywhere_and_says_zero_at_the_end() {
    let place = place(1 << 30);
    let data = pattern(2 * MIB);
    let mut writer = place.spools.writer();
    writer.push(&data).unwrap();
    let body = writer.finish().unwrap().slice(10, 2 * MIB as u64 - 10);
    let mut buffer = [0; 100];
    for offset in [0, 65_500, 65_520, 1_000_000, 7, body.len() - 100] {
        let count = body.read_at(offset, &mut buffer).unwrap();
        let from = usize::try_from(offset).unwrap() + 10;
        assert!(count > 0 && buffer[..count] == data[from..from + count]);
    }
    assert_eq!(body.read_at(body.len() - 3, &mut buffer).unwrap(), 3, "a slice ends where it ends");
    assert_eq!(body.read_at(body.len(), &mut buffer).unwrap(), 0);
    assert_eq!(body.read_at(u64::MAX, &mut buffer).unwrap(), 0);
    assert_eq!(body.read_at(0, &mut []).unwrap(), 0);
}

#[test]
fn all_spools_together_are_bounded_and_dropping_gives_back() {
    let place = place(4 * MIB as u64);
    let mut first = place.spools.writer();
    first.push(&pattern(3 * MIB)).unwrap();
    assert!(place.spools.has_room());
    let mut second = place.spools.writer();
    second.push(&pattern(MIB)).unwrap();
    assert!(!place.spools.has_room());
    assert!(matches!(second.push(b"x"), Err(SpoolError::Full { limit }) if limit == 4 * MIB as u64));
    let mut small = place.spools.writer();
    small.push(b"small messages keep everything else going").unwrap();
    drop(small);
    let body = first.finish().unwrap();
    drop(second);
    let part = body.slice(0, 5);
    drop(body);
    assert_eq!(place.spools.used_bytes(), 3 * MIB as u64, "a slice keeps the whole");
    drop(part);
    assert_eq!(place.spools.used_bytes(), 0);
}

#[test]
fn the_file_has_no_name_and_no_clear_text() {
    let place = place(1 << 30);
    let mut writer = place.spools.writer();
    let secret = "do-not-find-me ".repeat(200_000);
    writer.push(secret.as_bytes()).unwrap();
    let dir = place.dir.path().join("spool");
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        let ours = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| {
            let path = entry.ok()?.path();
            std::fs::read_link(&path).ok().filter(|target| target.starts_with(&dir)).map(|_| path)
        });
        let files: Vec<_> = ours.collect();
        assert_eq!(files.len(), 1, "one spool file is open");
        assert_eq!(std::fs::metadata(&files[0]).unwrap().permissions().mode() & 0o777, 0o600);
        let mut stored = Vec::new();
        std::fs::File::open(&files[0]).unwrap().read_to_end(&mut stored).unwrap();
        assert!(stored.len() > 2 * MIB, "the file holds the bytes");
        assert!(!stored.windows(11).any(|window| window == b"do-not-find"), "but not in clear");
    }
    let body = writer.finish().unwrap();
    assert!(bytes(&body) == secret.as_bytes());
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_was_changed_is_not_believed() {
    use std::io::{Seek, SeekFrom, Write};
    let place = place(1 << 30);
    let mut writer = place.spools.writer();
    writer.push(&pattern(2 * MIB)).unwrap();
    let body = writer.finish().unwrap();
    let dir = place.dir.path().join("spool");
    let file = std::fs::read_dir("/proc/self/fd").unwrap().find_map(|entry| {
        let path = entry.ok()?.path();
        std::fs::read_link(&path).ok().filter(|target| target.starts_with(&dir)).map(|_| path)
    });
    let mut file = std::fs::OpenOptions::new().write(true).open(file.unwrap()).unwrap();
    file.seek(SeekFrom::Start(1000)).unwrap();
    file.write_all(b"changed").unwrap();
    let error = body.read_at(0, &mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    assert!(body.read_at(MIB as u64, &mut [0; 10]).is_ok(), "other chunks are what they were");
}

#[test]
fn a_directory_that_cannot_hold_spools_is_known_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    assert!(wire::spool::Spools::open(&file, 1).is_err());
    std::fs::write(dir.path().join(".mcpproxy-spool-left"), "x").unwrap();
    wire::spool::Spools::open(dir.path(), 1).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "what a crash left is swept");
}
