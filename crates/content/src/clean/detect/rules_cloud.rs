//! Rules for the keys of cloud accounts and for private keys.

use super::check;
use super::rules::{Category, Edge, Find, Rule, Severity};

const CLOUD: Category = Category::CloudCredentials;

pub(super) const RULES: &[Rule] = &[
    Rule::new(
        "aws_access_key",
        CLOUD,
        Severity::Critical,
        &["AKIA", "ASIA", "ABIA", "ACCA"],
        r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}",
    )
    .longest(20)
    .edge(Edge::Alnum)
    .check(check::is_aws_id)
    .examples("aws_access_key_id = AKIA{U16}", "see AKIAIOSFODNN7EXAMPLE in the manual"),
    Rule::new("aws_secret_key", CLOUD, Severity::Critical, &["ecret", "ECRET"], "")
        .finds(Find::Named { tails: &["ecretaccesskey", "ecretkey"], shortest: 40 })
        .longest(96)
        .check(check::is_aws_secret)
        .examples(
            r#""SecretAccessKey": "{B40}""#,
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        ),
    Rule::new("gcp_api_key", CLOUD, Severity::High, &["AIza"], r"AIza[A-Za-z0-9_-]{35}")
        .longest(39)
        .check(check::is_random)
        .examples("?key=AIza{W35}&v=3", "AIzaNotAKey"),
    Rule::new("gcp_client_secret", CLOUD, Severity::Critical, &["GOCSPX-"], r"GOCSPX-[A-Za-z0-9_-]{28}")
        .longest(35)
        .check(check::is_random)
        .examples("client_secret: GOCSPX-{W28}", "GOCSPX-short"),
    Rule::new("gcp_access_token", CLOUD, Severity::High, &["ya29."], r"ya29\.[A-Za-z0-9_-]{24,}")
        .longest(2048)
        .check(check::is_random)
        .examples("token ya29.{W60}", "ya29.short"),
    Rule::new(
        "azure_storage_key",
        CLOUD,
        Severity::Critical,
        &["AccountKey="],
        r"AccountKey=([A-Za-z0-9+/]{86}==)",
    )
    .longest(99)
    .edge(Edge::Any)
    .check(check::is_random)
    .examples("AccountName=a;AccountKey={B86}==;EndpointSuffix=x", "AccountKey=<key>;EndpointSuffix=x"),
    Rule::new(
        "azure_connection_string",
        CLOUD,
        Severity::Critical,
        &["SharedAccessKey="],
        r"SharedAccessKey=([A-Za-z0-9+/]{43}=)",
    )
    .longest(60)
    .edge(Edge::Any)
    .check(check::is_random)
    .examples("Endpoint=sb://a/;SharedAccessKeyName=R;SharedAccessKey={B43}=", "SharedAccessKey=secret"),
    Rule::new("azure_sas", CLOUD, Severity::High, &["sig="], r"sig=([A-Za-z0-9%+/]{40,}(?:=|%3D)?)")
        .longest(128)
        .edge(Edge::Alnum)
        .check(check::is_random)
        .examples("https://a.blob.core.windows.net/c?sv=2023&sig={B43}%3D", "?sig=none&x=1"),
    Rule::new(
        "azure_client_secret",
        CLOUD,
        Severity::Critical,
        &["8Q~", "7Q~"],
        r"[A-Za-z0-9_~.-]{3}[78]Q~[A-Za-z0-9_~.-]{31,34}",
    )
    .back(3)
    .longest(40)
    .check(check::is_random)
    .examples("secret a1B8Q~{A34}", "8Q~ is short"),
    Rule::new(
        "digitalocean_token",
        CLOUD,
        Severity::Critical,
        &["p_v1_", "o_v1_", "r_v1_"],
        r"do[opr]_v1_[a-f0-9]{64}",
    )
    .back(2)
    .longest(71)
    .check(check::is_random)
    .examples("DO_TOKEN=dop_v1_{H64}", "loop_v1_test"),
    Rule::new("private_key", Category::PrivateKey, Severity::Critical, &["PRIVATE KEY"], "")
        .finds(Find::Key)
        .longest(super::LONGEST)
        .examples(
            "-----BEGIN RSA {PRIVATE}-----\n{B64}\n{B64}\n{B20}==\n-----END RSA {PRIVATE}-----",
            "the file must begin with -----BEGIN {PRIVATE}----- and nothing else",
        ),
    Rule::new(
        "age_key",
        Category::PrivateKey,
        Severity::Critical,
        &["AGE-SECRET-KEY-1"],
        r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
    )
    .longest(74)
    .check(check::is_random)
    .examples("AGE-SECRET-KEY-1{U58}", "AGE-SECRET-KEY-1..."),
];
