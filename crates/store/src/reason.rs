//! Why a call did not simply succeed: one closed list, the same in the record, in replies and in the documentation.

use crate::words::words;

words! {
    /// The reason code of a record. Codes that begin with `save_` concern the saving of the answer.
    Reason {
        /// The call itself is malformed: a missing name, arguments that are no object, arguments given twice.
        InvalidRequest = "invalid_request",
        /// The arguments do not fit the input schema of the tool.
        InvalidArguments = "invalid_arguments",
        /// The stated intent is not one that exists, or contradicts itself.
        IntentInvalid = "intent_invalid",
        /// The tool's annotations do not allow the variant that was called.
        IntentRejected = "intent_rejected",
        /// No such server or tool.
        UnknownTool = "unknown_tool",
        /// The tool lies outside the profile of this connection.
        ProfileScope = "profile_scope",
        /// The tool's server lies outside the scope of the caller's token.
        TokenScope = "token_scope",
        /// The caller's token lacks the permission that this tool needs.
        TokenPermission = "token_permission",
        /// Only reading is allowed now, and the tool does more, or the save would replace a file.
        ReadOnly = "read_only",
        /// The server is held until a person approves it.
        ServerQuarantined = "server_quarantined",
        /// The tool is new and waits for approval.
        ToolPendingApproval = "tool_pending_approval",
        /// The tool changed since it was approved and waits for approval again.
        ToolChangedApproval = "tool_changed_approval",
        /// The server or the tool is switched off.
        ToolNotCallable = "tool_not_callable",
        /// Too many calls wait already.
        QueueFull = "queue_full",
        /// The call waited too long for its turn.
        QueueTimeout = "queue_timeout",
        /// The room for large answers in flight is used up.
        SpoolFull = "spool_full",
        /// The database cannot be written and no more records can wait.
        StoreFull = "store_full",
        /// The save arguments are of the wrong type, or one stands without the others that it needs.
        SaveArguments = "save_arguments",
        /// A task-augmented call cannot be saved.
        SaveTask = "save_task",
        /// No root is configured: saving is switched off.
        SaveDisabled = "save_disabled",
        /// This caller may not save, or may not replace files.
        SavePermission = "save_permission",
        /// The path breaks a rule of names.
        SavePath = "save_path",
        /// The path lies outside the configured roots.
        SaveOutside = "save_outside",
        /// The path is one of the program's own, or reserved for automatic saves.
        SaveReserved = "save_reserved",
        /// The root, or something on the way to it, belongs to someone else or is writable for everyone.
        SaveRootUntrusted = "save_root_untrusted",
        /// The root leads elsewhere than when the configuration was loaded.
        SaveRootMoved = "save_root_moved",
        /// The file exists and overwriting was not asked for.
        SaveExists = "save_exists",
        /// Another call writes the same file now.
        SaveBusy = "save_busy",
        /// What stands there is not a regular file, or a part of the path is not a directory.
        SaveTargetKind = "save_target_kind",
        /// The path crosses into another mount.
        SaveMount = "save_mount",
        /// The file system is read-only.
        SaveReadOnly = "save_read_only",
        /// The operating system denies access.
        SaveDenied = "save_denied",
        /// Too little space is free.
        SaveSpace = "save_space",
        /// The files saved beneath this root have reached their total.
        SaveTotal = "save_total",
        /// Another error of the operating system.
        SaveIo = "save_io",
        /// The answer is larger than a saved file may be.
        SaveTooLarge = "save_too_large",
        /// The quota of the file system is used up.
        SaveQuota = "save_quota",
        /// The answer has no text to save.
        SaveNoText = "save_no_text",
        /// The answer has not exactly one binary block.
        SaveNotOneBlob = "save_not_one_blob",
        /// The binary block is not valid base64.
        SaveBase64 = "save_base64",
        /// The file was written, but may not survive a power cut.
        SaveNotDurable = "save_not_durable",
        /// The answer held a secret and policy says to stop it.
        OutputSanitisation = "output_sanitisation",
        /// The answer does not keep the output schema that its tool declares, or could not be checked against it.
        OutputSchema = "output_schema",
        /// A part of the answer could not be looked into and policy says to stop it.
        Unscanned = "unscanned",
        /// The tool itself answered with an error.
        ToolError = "tool_error",
        /// The upstream answered with a protocol error.
        UpstreamError = "upstream_error",
        /// The upstream did not answer in time.
        UpstreamTimeout = "upstream_timeout",
        /// The answer is larger than a message may be.
        UpstreamTooLarge = "upstream_too_large",
        /// The upstream answered with something that is not a valid result.
        UpstreamGarbled = "upstream_garbled",
        /// The upstream ended while the call ran.
        UpstreamGone = "upstream_gone",
        /// The upstream is not connected and could not be.
        UpstreamUnavailable = "upstream_unavailable",
        /// The caller cancelled the call.
        Cancelled = "cancelled",
        /// A fault of our own.
        Internal = "internal",
    }
}

#[cfg(test)]
mod tests {
    use super::Reason;

    #[test]
    fn every_code_reads_back_and_is_explained() {
        assert_eq!(Reason::ALL.len(), 53);
        for reason in Reason::ALL {
            assert_eq!(Reason::parse(reason.as_str()), Some(*reason));
            assert!(reason.doc().ends_with('.'), "{reason} has no sentence");
        }
        assert_eq!(Reason::parse("other"), None);
        assert!("nope".parse::<Reason>().unwrap_err().contains("save_outside"));
    }
}
