//! Rules for passwords, bearer tokens, signed tokens and URLs with credentials.

use super::check;
use super::rules::{Category, Edge, Find, Rule, Severity};

const AUTH: Category = Category::AuthToken;

pub(super) const RULES: &[Rule] = &[
    Rule::new(
        "jwt",
        AUTH,
        Severity::High,
        &["eyJ"],
        r"eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){1,3}",
    )
    .longest(16 * 1024)
    .edge(Edge::Dotted)
    .check(check::is_jwt)
    .examples("token {JWT} end", "eyJub3QiOiJhIGp3dCJ9.abc"),
    Rule::new(
        "bearer_token",
        AUTH,
        Severity::High,
        &["earer ", "EARER "],
        r"(?i)bearer[ \t]{1,4}([A-Za-z0-9_.~+/-]{16,}={0,2})",
    )
    .back(1)
    .longest(8 * 1024)
    .edge(Edge::Alnum)
    .check(check::is_secret_text)
    .examples("Authorization: Bearer {H40}", "the bearer authentication-scheme-of-oauth is used"),
    Rule::new(
        "basic_auth",
        AUTH,
        Severity::High,
        &["asic ", "ASIC "],
        r"(?i)basic[ \t]{1,4}([A-Za-z0-9+/_-]{8,}={0,2})",
    )
    .back(1)
    .longest(2048)
    .edge(Edge::Alnum)
    .check(check::is_basic)
    .examples("Authorization: Basic {BASIC}", "the basic authentication of old"),
    Rule::new("database_url", Category::DatabaseCredential, Severity::Critical, &["://"], "")
        .finds(Find::Url { alone: false })
        .check(check::is_database_url)
        .examples("DATABASE_URL=postgres://app:{A14}@db.internal:5432/app", "postgres://localhost:5432/app"),
    Rule::new("url_password", AUTH, Severity::High, &["://"], "")
        .finds(Find::Url { alone: false })
        .check(check::is_url_password)
        .examples("https://deploy:{A14}@git.example.org/x.git", "http://example.org:8080/@user"),
    Rule::new("url_token", AUTH, Severity::High, &["://"], "")
        .finds(Find::Url { alone: true })
        .check(check::is_secret_text)
        .examples("https://{A40}@git.example.org/x.git", "https://someone-with-a-long-name@example.org/x"),
    Rule::new(
        "password_assignment",
        AUTH,
        Severity::High,
        &["assword", "ASSWORD", "asswd", "ASSWD", "pwd", "PWD", "Pwd", "assphrase", "ASSPHRASE"],
        "",
    )
    .finds(Find::Named { tails: &["assword", "asswords", "asswd", "pwd", "assphrase"], shortest: 6 })
    .check(check::is_password)
    .examples("DB_PASSWORD=Tr0ub4dor!{A4}", "password: string, required"),
    Rule::new("token_assignment", AUTH, Severity::High, &["oken", "OKEN"], "")
        .finds(Find::Named { tails: &["oken", "okens", "okensecret", "okenkey"], shortest: 12 })
        .check(check::is_token_value)
        .examples("auth_token: '{A32}'", "next_page_token: '{A32}'"),
];
