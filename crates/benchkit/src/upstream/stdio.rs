//! The upstream over standard input and output: one message a line, answered in order.

use std::io::{BufRead as _, BufReader, Read as _};

use super::Server;

/// Largest request, in bytes: the arguments of the bench are small.
const LARGEST_LINE: u64 = 16 << 20;

/// What it is started with.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Tools that it lists, `echo` and `big` among them
    #[arg(long, default_value_t = 3)]
    tools: usize,
}

/// Serves until its input ends or nobody reads its output.
pub fn serve(options: &Options) -> Result<(), String> {
    let server = Server::new(options.tools);
    let mut input = BufReader::with_capacity(64 << 10, std::io::stdin().lock());
    let mut output = std::io::stdout().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input.by_ref().take(LARGEST_LINE).read_until(b'\n', &mut line);
        if read.map_err(|e| format!("standard input: {e}"))? == 0 {
            return Ok(());
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        if let Some(answer) = server.answer(&line)
            && write(&mut output, answer.pieces).is_err()
        {
            return Ok(());
        }
    }
}

/// The last piece takes the newline along, so that a small answer is one write. Standard output is buffered by lines: a
/// piece without a newline that does not fit is written through.
fn write(output: &mut impl std::io::Write, pieces: Vec<bytes::Bytes>) -> std::io::Result<()> {
    let last = pieces.len().saturating_sub(1);
    for (index, piece) in pieces.into_iter().enumerate() {
        if index == last {
            output.write_all(&[&*piece, b"\n"].concat())?;
        } else {
            output.write_all(&piece)?;
        }
    }
    output.flush()
}
