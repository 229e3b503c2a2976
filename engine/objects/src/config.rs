//! How a bucket is named and reached, and what to do about each way in which that fails.

use crate::{CONNECT, REQUEST, RETRIES};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, Checksum};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::multipart::MultipartStore;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{Error, Result, nearest};

/// Whose language the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// Amazon S3, and servers that speak its language.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
}

impl Provider {
    const ALL: [(&'static str, Provider); 3] = [("s3", Provider::S3), ("gs", Provider::Gcs), ("az", Provider::Azure)];
}

const FORM: &str = "write `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`";
/// As long as a part of a prefix may be.
const MAX_PART: usize = 200;

fn no_secrets(names: Names) -> String {
    format!("an address of a bucket holds neither credentials nor options; give those in `{}`, and {FORM}", names.options)
}

/// How the place where a bucket is named calls things, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// The key of the address.
    pub url: &'static str,
    /// The key of the table of options.
    pub options: &'static str,
    /// What is done there.
    pub rights: &'static str,
}

impl Names {
    /// Those of the bucket of epochs.
    pub const STATE: Names = Names { url: "stateUrl", options: "stateOptions", rights: "read, write, list and delete" };
}

/// A bucket, and the folder in it that is the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketUrl {
    provider: Provider,
    bucket: String,
    prefix: String,
}

impl BucketUrl {
    /// Whether a text looks like the address of a bucket, right or wrong, and not like a path.
    pub fn is_one(text: &str) -> bool {
        text.contains("://")
    }

    /// Reads `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`; the prefix may be empty.
    ///
    /// # Errors
    /// What is wrong with it, and how to write it. Parts of the address that could be a secret are not repeated.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let (provider, bucket, prefix) = BucketUrl::apart(text, Names::STATE)?;
        if prefix.contains(['@', '?', '#']) {
            return Err(no_secrets(Names::STATE));
        }
        let prefix = prefix.trim_end_matches('/');
        if !prefix.is_empty() {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.%=+@~".contains(c);
            let sound = |part: &str| !part.is_empty() && part.len() <= MAX_PART && !part.starts_with('.') && part.chars().all(plain);
            if !prefix.split('/').all(sound) {
                return Err(format!("`{prefix}` is no prefix; use plain parts of letters, digits and `-_.=`, parted by `/`"));
            }
        }
        Ok(BucketUrl { provider, bucket: bucket.to_string(), prefix: prefix.to_string() })
    }

    /// Reads the address of objects: the bucket, and a key, a prefix or a pattern in it, which may hold any character.
    ///
    /// # Errors
    /// As [`BucketUrl::parse`].
    pub fn parse_key(text: &str, names: Names) -> std::result::Result<(Self, String), String> {
        let (provider, bucket, key) = BucketUrl::apart(text, names)?;
        Ok((BucketUrl { provider, bucket: bucket.to_string(), prefix: String::new() }, key.to_string()))
    }

    fn apart(text: &str, names: Names) -> std::result::Result<(Provider, &str, &str), String> {
        let Some((scheme, rest)) = text.split_once("://") else { return Err(format!("`{text}` is no address of a bucket; {FORM}")) };
        let Some((_, provider)) = Provider::ALL.into_iter().find(|(name, _)| *name == scheme) else {
            let hint = nearest::hint(scheme, Provider::ALL.map(|(name, _)| name));
            return Err(format!("there is no store for `{scheme}://`{hint}; {FORM}"));
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.contains(['@', '?', '#']) {
            return Err(no_secrets(names));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if bucket.is_empty() || !bucket.chars().all(plain) {
            return Err(format!("`{bucket}` is no name of a bucket; {FORM}"));
        }
        Ok((provider, bucket, key))
    }

    /// Whose language the server speaks.
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// The bucket (Azure: the container).
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The folder in it, without slashes at its ends; empty for the whole bucket.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl fmt::Display for BucketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = Provider::ALL.into_iter().find(|(_, provider)| *provider == self.provider).map_or("", |(name, _)| name);
        write!(f, "{scheme}://{}", self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

/// An option of one provider.
#[derive(Debug, Clone, Copy)]
pub struct BucketOption {
    /// Its name in `stateOptions`.
    pub name: &'static str,
    /// Whose.
    pub provider: Provider,
    /// The environment variables that the command takes it from where the file does not say it; the first that is set.
    pub variables: &'static [&'static str],
    /// Whether it is never shown.
    pub secret: bool,
    /// The provider's client's name for it.
    key: &'static str,
    /// What it is.
    pub doc: &'static str,
}

const fn option(
    provider: Provider,
    name: &'static str,
    key: &'static str,
    variables: &'static [&'static str],
    doc: &'static str,
) -> BucketOption {
    BucketOption { name, provider, variables, secret: false, key, doc }
}

const fn secret(
    provider: Provider,
    name: &'static str,
    key: &'static str,
    variables: &'static [&'static str],
    doc: &'static str,
) -> BucketOption {
    BucketOption { name, provider, variables, secret: true, key, doc }
}

/// Every option of every provider.
pub const OPTIONS: &[BucketOption] = &[
    option(
        Provider::S3,
        "endpoint",
        "endpoint",
        &["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"],
        "address of a server other than Amazon's, such as `http://127.0.0.1:8333`",
    ),
    option(Provider::S3, "region", "region", &["AWS_REGION", "AWS_DEFAULT_REGION"], "region; `us-east-1` without it"),
    option(Provider::S3, "accessKeyId", "access_key_id", &["AWS_ACCESS_KEY_ID"], "access key"),
    secret(Provider::S3, "secretAccessKey", "secret_access_key", &["AWS_SECRET_ACCESS_KEY"], "secret of the access key"),
    secret(Provider::S3, "sessionToken", "session_token", &["AWS_SESSION_TOKEN"], "token of a temporary access key"),
    option(
        Provider::S3,
        "webIdentityTokenFile",
        "web_identity_token_file",
        &["AWS_WEB_IDENTITY_TOKEN_FILE"],
        "file of a web identity token, with `roleArn`",
    ),
    option(Provider::S3, "roleArn", "role_arn", &["AWS_ROLE_ARN"], "role to take with the web identity"),
    option(Provider::S3, "roleSessionName", "role_session_name", &["AWS_ROLE_SESSION_NAME"], "name of the session of that role"),
    option(
        Provider::S3,
        "containerCredentialsUri",
        "container_credentials_relative_uri",
        &["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"],
        "where a container asks for its credentials",
    ),
    option(Provider::S3, "virtualHosted", "virtual_hosted_style_request", &[], "`true`: the bucket is part of the host's name"),
    option(Provider::Gcs, "endpoint", "base_url", &[], "address of a server other than Google's"),
    option(Provider::Gcs, "serviceAccountPath", "service_account_path", &["GOOGLE_SERVICE_ACCOUNT"], "file of a service account's key"),
    secret(Provider::Gcs, "serviceAccountKey", "service_account_key", &["GOOGLE_SERVICE_ACCOUNT_KEY"], "that key itself, as JSON"),
    option(
        Provider::Gcs,
        "applicationCredentials",
        "application_credentials",
        &["GOOGLE_APPLICATION_CREDENTIALS"],
        "file of application default credentials",
    ),
    option(Provider::Azure, "account", "account_name", &["AZURE_STORAGE_ACCOUNT_NAME"], "storage account"),
    option(Provider::Azure, "endpoint", "endpoint", &["AZURE_STORAGE_ENDPOINT"], "address of a server other than Azure's"),
    secret(Provider::Azure, "accountKey", "account_key", &["AZURE_STORAGE_ACCOUNT_KEY"], "key of the account"),
    secret(Provider::Azure, "sasToken", "sas_token", &["AZURE_STORAGE_SAS_TOKEN"], "shared access signature"),
    option(Provider::Azure, "clientId", "client_id", &["AZURE_CLIENT_ID"], "application that signs in"),
    secret(Provider::Azure, "clientSecret", "client_secret", &["AZURE_CLIENT_SECRET"], "secret of that application"),
    option(Provider::Azure, "tenantId", "tenant_id", &["AZURE_TENANT_ID"], "tenant of that application"),
    option(
        Provider::Azure,
        "federatedTokenFile",
        "federated_token_file",
        &["AZURE_FEDERATED_TOKEN_FILE"],
        "file of a federated token, instead of the secret",
    ),
];

/// The options of one provider.
pub fn options_of(provider: Provider) -> impl Iterator<Item = &'static BucketOption> {
    OPTIONS.iter().filter(move |option| option.provider == provider)
}

/// Completes `options` by what `variable` knows, where they say nothing.
pub fn complete(url: &BucketUrl, options: &mut BTreeMap<String, String>, variable: &dyn Fn(&str) -> Option<String>) {
    for option in options_of(url.provider) {
        if options.contains_key(option.name) {
            continue;
        }
        let found = option.variables.iter().find_map(|name| variable(name).filter(|value| !value.is_empty()));
        options.extend(found.map(|value| (option.name.to_string(), value)));
    }
}

/// Whether the options make a client. Asks nobody anything.
///
/// # Errors
/// As [`build`].
pub fn check(url: &BucketUrl, options: &BTreeMap<String, String>) -> Result<()> {
    build(url, options).map(|_| ())
}

/// A client, as what stores objects and as what writes them in parts.
pub type Client = (Arc<dyn ObjectStore>, Arc<dyn MultipartStore>);

fn both<T: ObjectStore + MultipartStore>(client: T) -> Client {
    let client = Arc::new(client);
    (Arc::clone(&client) as Arc<dyn ObjectStore>, client)
}

/// A client for a bucket.
///
/// # Errors
/// `Config` for an option that the provider does not have or cannot use.
pub fn build(url: &BucketUrl, options: &BTreeMap<String, String>) -> Result<Client> {
    for name in options.keys() {
        if options_of(url.provider).all(|option| option.name != name) {
            let hint = nearest::hint(name, options_of(url.provider).map(|option| option.name));
            return Err(Error::config(format!("`{url}` has no option `{name}`{hint}")));
        }
    }
    let given = || options_of(url.provider).filter_map(|option| Some((option.key, options.get(option.name)?)));
    let plain = options.get("endpoint").is_some_and(|endpoint| endpoint.starts_with("http://"));
    let client = ClientOptions::new().with_timeout(REQUEST).with_connect_timeout(CONNECT).with_allow_http(plain);
    let backoff = BackoffConfig { init_backoff: Duration::from_millis(100), max_backoff: Duration::from_secs(5), base: 2.0 };
    let retry = RetryConfig { backoff, max_retries: RETRIES, retry_timeout: REQUEST };
    let unusable = |error: object_store::Error| Error::config(format!("`{url}` cannot be used: {}", readable(&error)));
    let internal = |key: &str| Error::internal(format!("the client knows no option `{key}`"));
    Ok(match url.provider {
        Provider::S3 => {
            // A checksum goes with every upload, so that what arrives damaged is not stored.
            let mut builder = AmazonS3Builder::new().with_bucket_name(&url.bucket).with_checksum_algorithm(Checksum::SHA256);
            for (key, value) in given() {
                builder = builder.with_config(key.parse::<AmazonS3ConfigKey>().map_err(|_| internal(key))?, value);
            }
            both(builder.with_client_options(client).with_retry(retry).build().map_err(unusable)?)
        }
        Provider::Gcs => {
            let mut builder = GoogleCloudStorageBuilder::new().with_bucket_name(&url.bucket);
            for (key, value) in given() {
                builder = builder.with_config(key.parse::<GoogleConfigKey>().map_err(|_| internal(key))?, value);
            }
            both(builder.with_client_options(client).with_retry(retry).build().map_err(unusable)?)
        }
        Provider::Azure => {
            let mut builder = MicrosoftAzureBuilder::new().with_container_name(&url.bucket);
            for (key, value) in given() {
                builder = builder.with_config(key.parse::<AzureConfigKey>().map_err(|_| internal(key))?, value);
            }
            both(builder.with_client_options(client).with_retry(retry).build().map_err(unusable)?)
        }
    })
}

/// What is the matter, as far as a person can do something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The object is not there; no trouble for a read.
    NoObject,
    /// The bucket is not there.
    NoBucket,
    /// Credentials are missing or not good enough.
    Refused,
    /// The server does not answer, or not in time.
    Unreachable,
}

/// Tells one from the other. Listings wrap what the server said in another error, so its words decide beside the kind.
pub fn trouble(error: &object_store::Error) -> Trouble {
    use object_store::Error::{NotFound, PermissionDenied, Unauthenticated};
    let text = error.to_string();
    let says = |signs: &[&str]| signs.iter().any(|sign| text.contains(sign));
    if says(&["NoSuchBucket", "ContainerNotFound", "specified bucket does not exist"]) {
        return Trouble::NoBucket;
    }
    match error {
        NotFound { .. } => Trouble::NoObject,
        PermissionDenied { .. } | Unauthenticated { .. } => Trouble::Refused,
        // Credentials are asked of the machine's cloud where none are given.
        _ if says(&["403 Forbidden", "401 Unauthorized", "AccessDenied", "SignatureDoesNotMatch", "redential"]) => Trouble::Refused,
        _ => Trouble::Unreachable,
    }
}

/// What to do about it.
pub fn fix(url: &BucketUrl, names: Names, trouble: Trouble) -> String {
    let credentials = match url.provider {
        Provider::S3 => "`accessKeyId` and `secretAccessKey` (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)",
        Provider::Gcs => "`serviceAccountPath` (GOOGLE_SERVICE_ACCOUNT)",
        Provider::Azure => "`account` and `accountKey` or `sasToken` (AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY)",
    };
    match trouble {
        Trouble::NoObject | Trouble::NoBucket => {
            format!("create the bucket `{}`, or correct its name in `{}`", url.bucket, names.url)
        }
        Trouble::Refused => format!("check {credentials}, and that they may {} below `{url}`", names.rights),
        Trouble::Unreachable => {
            format!("check `endpoint` and `region` in `{}`, and the network between here and the store", names.options)
        }
    }
}

/// A client's message for a person: without the query parts of addresses, where a signature may stand, and with the code and message of
/// the server's answer in place of its XML.
pub fn readable(error: &object_store::Error) -> String {
    let text = without_queries(&error.to_string());
    let Some((head, answer)) = text.split_once("<?xml").or_else(|| text.split_once("<Error")) else { return text };
    let part = |name: &str| answer.split_once(&format!("<{name}>"))?.1.split_once(&format!("</{name}>")).map(|(part, _)| part.trim());
    match (part("Code"), part("Message")) {
        (Some(code), Some(message)) => format!("{head}{code}: {message}"),
        (Some(code), None) => format!("{head}{code}"),
        (None, _) => text,
    }
}

/// A message without the query parts of the addresses in it: a signature may stand there.
fn without_queries(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let end =
            rest[at..].find(|c: char| c.is_whitespace() || matches!(c, '"' | ')' | '`' | '>' | '<')).map_or(rest.len(), |end| at + end);
        let address = &rest[..end];
        out.push_str(address[at..].find('?').map_or(address, |query| &address[..at + query]));
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_in_addresses_are_not_shown() {
        assert_eq!(without_queries("GET http://h/b?sig=abc: failed, (https://x/y?z=1) end?"), "GET http://h/b failed, (https://x/y) end?");
        assert_eq!(without_queries("nothing here?"), "nothing here?");
    }

    #[test]
    fn an_answer_in_xml_is_shown_by_code_and_message() {
        let said = |text: &str| object_store::Error::Generic { store: "S3", source: text.to_string().into() };
        let answer = "404: <?xml version=\"1.0\"?>\n<Error><Code>NoSuchBucket</Code><Message>It is not there</Message></Error>";
        assert_eq!(readable(&said(answer)), "Generic S3 error: 404: NoSuchBucket: It is not there");
        assert_eq!(readable(&said("refused")), "Generic S3 error: refused");
    }

    #[test]
    fn troubles_are_told_apart_by_kind_and_by_what_the_server_says() {
        let said = |text: &str| trouble(&object_store::Error::Generic { store: "S3", source: text.to_string().into() });
        assert_eq!(said("404: <Code>NoSuchBucket</Code>"), Trouble::NoBucket);
        assert_eq!(said("status code: 403 Forbidden"), Trouble::Refused);
        assert_eq!(said("error sending request"), Trouble::Unreachable);
        let gone = object_store::Error::NotFound { path: "a".into(), source: "<Code>NoSuchKey</Code>".into() };
        assert_eq!(trouble(&gone), Trouble::NoObject);
    }
}
