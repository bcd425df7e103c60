//! Rules for the keys and tokens of services that have a prefix of their own.

use super::check;
use super::rules::{Category, Edge, Find, Rule, Severity};

const API: Category = Category::ApiToken;

const fn prefixed(
    name: &'static str,
    severity: Severity,
    keywords: &'static [&'static str],
    pattern: &'static str,
) -> Rule {
    Rule::new(name, API, severity, keywords, pattern).check(check::is_random)
}

pub(super) const RULES: &[Rule] = &[
    prefixed(
        "github_token",
        Severity::Critical,
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"],
        r"gh[pousr]_[A-Za-z0-9]{36,}",
    )
    .edge(Edge::Alnum)
    .examples("git clone with ghp_{A36} please", "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
    prefixed("github_pat", Severity::Critical, &["github_pat_"], r"github_pat_[A-Za-z0-9_]{36,}")
        .edge(Edge::Alnum)
        .examples("export T=github_pat_{A22}_{A59}", "a github_pat_ prefix"),
    prefixed(
        "gitlab_token",
        Severity::Critical,
        &["glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "gloas-"],
        r"gl(?:pat|dt|rt|cbt|ptt|oas)-[A-Za-z0-9_-]{20,}(?:\.[A-Za-z0-9_-]{2,})*",
    )
    .examples("PRIVATE-TOKEN: glpat-{W20}", "glpat-<your token>"),
    prefixed(
        "slack_token",
        Severity::Critical,
        &["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xoxc-", "xapp-"],
        r"x(?:ox[abceprs]|app)-[A-Za-z0-9-]{20,}",
    )
    .examples("SLACK=xoxb-{D12}-{D12}-{A24}", "xoxb-your-token-goes-here-please"),
    prefixed(
        "slack_webhook",
        Severity::High,
        &["hooks.slack.com/"],
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(T[A-Z0-9]{6,}/[A-Za-z0-9]{6,}/[A-Za-z0-9/]{16,})",
    )
    .edge(Edge::Alnum)
    .examples(
        "https://hooks.slack.com/services/T{U8}/B{U8}/{A24}",
        "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
    ),
    prefixed("stripe_key", Severity::Critical, &["sk_live_", "rk_live_"], r"[sr]k_live_[A-Za-z0-9]{16,}")
        .edge(Edge::Alnum)
        .examples("stripe: sk_live_{A24}", "sk_live_xxxxxxxxxxxxxxxxxxxxxxxx"),
    prefixed("stripe_test_key", Severity::Medium, &["sk_test_", "rk_test_"], r"[sr]k_test_[A-Za-z0-9]{16,}")
        .edge(Edge::Alnum)
        .examples("stripe: sk_test_{A24}", "sk_test_your_key"),
    prefixed("stripe_webhook_secret", Severity::High, &["whsec_"], r"whsec_[A-Za-z0-9+/]{24,}={0,2}")
        .edge(Edge::Alnum)
        .examples("whsec_{A32}", "whsec_..."),
    prefixed(
        "openai_key",
        Severity::Critical,
        &["sk-"],
        r"sk-(?:(?:proj|svcacct|admin|None|or-v1)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9]{20,})",
    )
    .examples("OPENAI=sk-proj-{W48}", "<li class=sk-fading-circle-with-dots-and-more>"),
    prefixed("anthropic_key", Severity::Critical, &["sk-"], r"sk-ant-[A-Za-z0-9_-]{24,}")
        .examples("key sk-ant-api03-{W86}AA", "sk-ant-api03-your-key-goes-here-instead"),
    prefixed("npm_token", Severity::Critical, &["npm_"], r"npm_[A-Za-z0-9]{36}")
        .edge(Edge::Alnum)
        .examples("//registry.npmjs.org/:_authToken=npm_{A36}", "npm_config_registry=https://x"),
    prefixed("pypi_token", Severity::Critical, &["pypi-AgE"], r"pypi-AgE[A-Za-z0-9_-]{50,}")
        .longest(2048)
        .examples("password = pypi-AgEIcHlwaS5vcmc{W90}", "pypi-publish"),
    prefixed("sendgrid_key", Severity::Critical, &["SG."], r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}")
        .examples("SG.{W22}.{W43}", "SG.UTF8.String"),
    Rule::new("twilio_key", API, Severity::High, &[], r"SK[0-9a-f]{32}")
        .begins("SK")
        .examples("sid SK{H32} of twilio", "SKU123456"),
    prefixed("huggingface_token", Severity::High, &["hf_"], r"hf_[A-Za-z0-9]{30,}")
        .edge(Edge::Alnum)
        .examples("HF=hf_{A34}", "hf_hub_download"),
    prefixed("groq_key", Severity::High, &["gsk_"], r"gsk_[A-Za-z0-9]{40,}")
        .edge(Edge::Alnum)
        .examples("gsk_{A52}", "gsk_render_node_new"),
    prefixed("xai_key", Severity::High, &["xai-"], r"xai-[A-Za-z0-9]{60,}").examples("xai-{A80}", "xai-grok"),
    prefixed("replicate_token", Severity::High, &["r8_"], r"r8_[A-Za-z0-9]{37,}")
        .edge(Edge::Alnum)
        .examples("r8_{A37}", "r8_register"),
    prefixed("perplexity_key", Severity::High, &["pplx-"], r"pplx-[A-Za-z0-9]{40,}")
        .examples("pplx-{A48}", "pplx-70b-online"),
    prefixed("shopify_token", Severity::Critical, &["shpat_", "shpca_", "shppa_", "shpss_"], r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}")
        .edge(Edge::Alnum)
        .examples("shpat_{H32}", "shpat_token"),
    prefixed("docker_token", Severity::Critical, &["dckr_pat_", "dckr_oat_"], r"dckr_[po]at_[A-Za-z0-9_-]{24,}")
        .edge(Edge::Alnum)
        .examples("docker login -p dckr_pat_{W27}", "dckr_pat_<token>"),
    prefixed("grafana_token", Severity::High, &["glsa_"], r"glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}")
        .edge(Edge::Alnum)
        .examples("glsa_{A32}_{H8}", "glsa_x"),
    prefixed("vault_token", Severity::Critical, &["hvs.", "hvb."], r"hv[sb]\.[A-Za-z0-9_-]{24,}")
        .longest(1024)
        .examples("VAULT_TOKEN=hvs.{W90}", "hvs.read"),
    prefixed("databricks_token", Severity::High, &["dapi"], r"dapi[a-f0-9]{32}(?:-[0-9])?")
        .examples("dapi{H32}", "dapietcetera"),
    prefixed("atlassian_token", Severity::High, &["ATATT3"], r"ATATT3[A-Za-z0-9_=-]{60,}")
        .examples("ATATT3{W180}", "ATATT3"),
    Rule::new(
        "api_key_assignment",
        API,
        Severity::High,
        &["_key", "_KEY", "pikey", "piKey", "PIKEY", "pi-key", "PI-KEY", "pi-Key", "PI-Key", "tKey", "sKey"],
        "",
    )
    .finds(Find::Named { tails: &["key", "keys", "pikey", "pikeys", "tkey", "skey"], shortest: 12 })
    .check(check::is_key_value)
    .examples(r#"{"api_key": "{A32}"}"#, r#""cache_key": "{A32}""#),
    Rule::new(
        "secret_assignment",
        API,
        Severity::High,
        &["ecret", "ECRET"],
        "",
    )
    .finds(Find::Named {
        tails: &["ecret", "ecrets", "ecretkey", "ecrettoken", "ecretkeybase", "ecretaccesskey"],
        shortest: 12,
    })
    .check(check::is_secret_value)
    .examples("client_secret={A32}", "secret: required, see below"),
];
