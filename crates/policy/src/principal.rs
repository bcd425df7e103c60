//! Who calls, what they may, and what they ask for.

/// What a tool does at most, from harmless to not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// It changes nothing.
    Read,
    /// It changes things that can be put right.
    Write,
    /// It may destroy.
    Destructive,
}

/// Which of the three call tools the caller used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// `call_tool_read`.
    Read,
    /// `call_tool_write`.
    Write,
    /// `call_tool_destructive`.
    Destructive,
}

impl Variant {
    /// All three, in order.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Destructive];

    /// The name of the tool that agents call.
    #[must_use]
    pub fn tool_name(self) -> &'static str {
        match self {
            Self::Read => "call_tool_read",
            Self::Write => "call_tool_write",
            Self::Destructive => "call_tool_destructive",
        }
    }

    /// The variant of a call tool, if `name` is one.
    #[must_use]
    pub fn from_tool_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variant| variant.tool_name() == name)
    }

    /// The variant in one word, for records: `read`, `write` or `destructive`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Destructive => "destructive",
        }
    }

    /// The permission that the variant itself needs.
    #[must_use]
    pub fn permission(self) -> Permission {
        match self {
            Self::Read => Permission::Read,
            Self::Write => Permission::Write,
            Self::Destructive => Permission::Destructive,
        }
    }
}

/// What a caller may do with `save_to_file`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SaveRight {
    /// Nothing.
    None,
    /// Make new files.
    Create,
    /// Make new files and replace existing ones.
    Overwrite,
}

/// What a call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SaveWish {
    /// Not to save.
    None,
    /// To make a new file.
    Create,
    /// To replace a file if there is one.
    Overwrite,
}

impl SaveRight {
    /// Whether this right is enough for a wish.
    #[must_use]
    pub fn covers(self, wish: SaveWish) -> bool {
        match wish {
            SaveWish::None => true,
            SaveWish::Create => self >= Self::Create,
            SaveWish::Overwrite => self >= Self::Overwrite,
        }
    }
}

/// How a caller was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrincipalKind {
    /// A connection on loopback that the kernel says belongs to our own user.
    LocalCaller,
    /// The API key.
    ApiKey,
    /// The Unix socket, by peer uid.
    Socket,
    /// Our own standard input and output.
    Stdio,
    /// The program itself.
    Internal,
}

impl PrincipalKind {
    /// The kind in one word, for records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LocalCaller => "local",
            Self::ApiKey => "api_key",
            Self::Socket => "socket",
            Self::Stdio => "stdio",
            Self::Internal => "internal",
        }
    }
}

/// A caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    kind: PrincipalKind,
    save: SaveRight,
}

impl Principal {
    /// A caller of this kind with the rights of the kind: everyone but the program itself may save and overwrite.
    #[must_use]
    pub fn new(kind: PrincipalKind) -> Self {
        let save = if kind == PrincipalKind::Internal { SaveRight::None } else { SaveRight::Overwrite };
        Self { kind, save }
    }

    /// The same caller with another right to save.
    #[must_use]
    pub fn with_save(self, save: SaveRight) -> Self {
        Self { save, ..self }
    }

    /// How the caller was recognised.
    #[must_use]
    pub fn kind(&self) -> PrincipalKind {
        self.kind
    }

    /// What the caller may save.
    #[must_use]
    pub fn save(&self) -> SaveRight {
        self.save
    }
}
