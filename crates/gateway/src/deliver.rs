//! The last stage: a cleaned answer goes to the agent or into a file. Only `Redacted` comes in here.

use std::io::Read;
use std::sync::Arc;

use content::clean::Redacted;
use content::{Format, NoRendition};
use outputfile::{SaveError, Saved, Target};
use store::{Reason, SavedFile};
use tokio_util::sync::CancellationToken;

use crate::live::Snapshot;
use crate::plan::{self, Plan};
use crate::refusal::Refusal;
use crate::reply::Reply;
use crate::{Gateway, envelope};

/// How much of an answer is in memory while it is written.
const PIECE: usize = 128 * 1024;
/// Answers up to this size lie in memory and are looked at where they are; larger ones may have to be read from a disk.
const INLINE_BYTES: u64 = 64 * 1024;
/// What a record keeps of an upstream's error text, in bytes.
const MAX_ERROR_TEXT: usize = 512;
/// Most of a response that is handed to the record, whatever the configuration says, in bytes.
const MAX_KEPT: u64 = 16 << 20;
/// Characters of the preview.
pub const PREVIEW_CHARS: usize = 1000;

/// A delivered answer: the reply, and what the record says about it.
pub struct Delivery {
    /// What the agent gets.
    pub reply: Reply,
    /// The file that was made.
    pub saved: Option<SavedFile>,
    /// The cleaned response, or of a saved one its preview, at most as long as a record keeps.
    pub response: Response,
    /// The upstream said that it failed; the text says how.
    pub tool_error: Option<String>,
}

/// What a record keeps of a response.
pub struct Response {
    /// The beginning of it.
    pub text: String,
    /// It is not all of it.
    pub cut: bool,
}

/// Delivers a cleaned answer by the plan.
///
/// # Errors
/// The save failed; the answer is then not sent instead.
pub async fn deliver(
    gateway: &Gateway,
    answer: Redacted,
    plan: Plan,
    cancel: &CancellationToken,
) -> Result<Delivery, Refusal> {
    if cancel.is_cancelled() {
        return Err(Refusal::cancelled(true));
    }
    match plan {
        // A failed call is not saved, and an answer that asks for input is not the answer yet.
        Plan::Save { target, format } if !answer.is_error() && is_final(&answer) => {
            save(gateway, answer, target, format, cancel).await
        }
        _ => forward(gateway, answer).await,
    }
}

fn is_final(answer: &Redacted) -> bool {
    answer.result_type().is_none_or(|kind| kind == "complete")
}

async fn forward(gateway: &Gateway, answer: Redacted) -> Result<Delivery, Refusal> {
    let keep = gateway.live.now().config.activity.max_response_size.min(MAX_KEPT);
    let keep = usize::try_from(keep).unwrap_or(usize::MAX);
    let small = answer.len() <= INLINE_BYTES;
    let job = move || {
        let response = beginning(&answer, keep)?;
        let tool_error = answer.is_error().then(|| answer.error_text(MAX_ERROR_TEXT));
        Ok(Delivery { reply: Reply::Answer(answer), saved: None, response, tool_error })
    };
    let done = if small { Some(job()) } else { gateway.work.compute(job).await };
    match done {
        Some(delivery) => delivery.map_err(|e: std::io::Error| unreadable(&e)),
        None => Err(Refusal::failed(
            Reason::Internal,
            "internal error while reading the answer; please report it",
        )),
    }
}

/// The beginning of an answer as it is sent, for the record.
fn beginning(answer: &Redacted, max: usize) -> std::io::Result<Response> {
    let take = u64::try_from(max).unwrap_or(u64::MAX).min(answer.len());
    let mut bytes = Vec::with_capacity(usize::try_from(take).unwrap_or(0));
    answer.json().take(take).read_to_end(&mut bytes)?;
    let cut = answer.len() > take;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // Only the last character can be incomplete: the whole answer is UTF-8.
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned()
        }
    };
    Ok(Response { text, cut })
}

async fn save(
    gateway: &Gateway,
    answer: Redacted,
    target: Target,
    format: Format,
    cancel: &CancellationToken,
) -> Result<Delivery, Refusal> {
    // The configuration of this moment, not of the beginning: a root may have been taken away meanwhile.
    let now = gateway.live.now();
    let cancel = cancel.clone();
    let job = move || {
        let written = write(&now, &answer, target, format, &cancel)?;
        Ok(written.delivery(&now, &answer, format))
    };
    match gateway.work.disk(job).await {
        Some(done) => done,
        None => Err(Refusal::save_failed(Reason::Internal, "internal error while writing; please report it")),
    }
}

struct Written {
    saved: Saved,
    mime_type: Option<String>,
}

#[expect(clippy::disallowed_methods, reason = "the one place where files are written")]
fn write(
    now: &Arc<Snapshot>,
    answer: &Redacted,
    target: Target,
    format: Format,
    cancel: &CancellationToken,
) -> Result<Written, Refusal> {
    let mut rendition = answer.rendition(format).map_err(|e| no_rendition(&e))?;
    let mime_type = rendition.mime_type().map(str::to_owned);
    let mut writer = now.roots.begin(target).map_err(|e| failed(now, &e, format))?;
    if format == Format::Json {
        writer.expect_bytes(answer.len()).map_err(|e| failed(now, &e, format))?;
    }
    let mut piece = vec![0; PIECE];
    loop {
        if cancel.is_cancelled() {
            return Err(Refusal::cancelled(true));
        }
        match rendition.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => writer.put(&piece[..n]).map_err(|e| failed(now, &e, format))?,
            Err(error) => return Err(unreadable(&error)),
        }
    }
    // Syncing takes long; the file has its name only after the last question.
    writer.sync().map_err(|e| failed(now, &e, format))?;
    if cancel.is_cancelled() {
        return Err(Refusal::cancelled(true));
    }
    let saved = writer.commit().map_err(|e| failed(now, &e, format))?;
    Ok(Written { saved, mime_type })
}

impl Written {
    fn delivery(self, now: &Snapshot, answer: &Redacted, format: Format) -> Delivery {
        let (preview, cut) = match format {
            Format::Binary => (String::new(), false),
            Format::Text | Format::Json => answer.preview(PREVIEW_CHARS),
        };
        let path = self.saved.path.to_string_lossy();
        let envelope = envelope::Envelope {
            saved_to: &now.outside(&path),
            bytes: self.saved.bytes,
            sha256: &envelope::hex(&self.saved.sha256),
            format,
            mime_type: self.mime_type.as_deref(),
            content_blocks: answer.content_blocks(),
            non_text_blocks: answer.non_text_blocks(),
            preview: &preview,
            truncated_preview: cut,
        };
        Delivery {
            reply: Reply::text(envelope.to_json()),
            saved: Some(saved_file(&self.saved, format)),
            response: Response { text: preview, cut: true },
            tool_error: None,
        }
    }
}

/// The record's view of a saved file.
pub fn saved_file(saved: &Saved, format: Format) -> SavedFile {
    SavedFile {
        root: saved.root.to_string_lossy().into_owned(),
        path: saved.path.to_string_lossy().into_owned(),
        bytes: saved.bytes,
        sha256: envelope::hex(&saved.sha256),
        format: envelope::format_name(format).to_owned(),
        dev: saved.identity.dev,
        ino: saved.identity.ino,
        size: saved.identity.size,
        ctime_ns: saved.identity.ctime_ns,
    }
}

fn failed(now: &Snapshot, error: &SaveError, format: Format) -> Refusal {
    let mut refusal = Refusal::save_failed(plan::reason(error), now.outside_text(&error.to_string()));
    // A file that could not be made durable stays, and the record knows of it.
    refusal.saved = error.saved().map(|saved| Box::new(saved_file(saved, format)));
    refusal
}

fn no_rendition(error: &NoRendition) -> Refusal {
    let reason = match error {
        NoRendition::NoText { .. } => Reason::SaveNoText,
        NoRendition::NotOneBlob { .. } => Reason::SaveNotOneBlob,
        NoRendition::Base64 { .. } => Reason::SaveBase64,
        NoRendition::Io(_) => Reason::Internal,
    };
    Refusal::save_failed(reason, error.to_string())
}

fn unreadable(error: &std::io::Error) -> Refusal {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<NoRendition>()) {
        Some(inner) => no_rendition(inner),
        None => Refusal::save_failed(Reason::Internal, format!("the answer could not be read back: {error}")),
    }
}
