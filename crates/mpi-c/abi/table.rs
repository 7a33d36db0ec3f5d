// The list of all functions, `functions.txt`, read. Shared by the build script, the header's maker and tests.

/// A line of the list.
pub(crate) struct Function {
    /// The module that implements it; with `=` in front if its result is no error code, and `!` behind if it is to be told
    /// whether it is the large-count function.
    pub(crate) module: String,
    pub(crate) result: String,
    /// Without `MPI_`.
    pub(crate) name: String,
    pub(crate) params: Vec<Param>,
}

/// A parameter. Its type may have one of the words `COUNT`, `DISP`, `EXTENT`.
pub(crate) struct Param {
    pub(crate) ty: String,
    pub(crate) name: String,
    /// What stands behind the name, such as `[]`.
    pub(crate) array: String,
}

/// Each word, what it stands for, and what it stands for in large-count functions.
pub(crate) const WORDS: [(&str, &str, &str); 3] = [
    ("COUNT", "int", "MPI_Count"),
    ("DISP", "int", "MPI_Aint"),
    ("EXTENT", "MPI_Aint", "MPI_Count"),
];

pub(crate) fn read(list: &str) -> Vec<Function> {
    lines(list)
        .map(|line| Function::read(line).unwrap_or_else(|| panic!("not a prototype: {line}")))
        .collect()
}

fn lines(list: &str) -> impl Iterator<Item = &str> {
    let lines = list.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// A number that differs between lists of different functions: FNV-1a.
pub(crate) fn fingerprint(list: &str) -> u64 {
    lines(list)
        .flat_map(str::bytes)
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

impl Function {
    fn read(line: &str) -> Option<Self> {
        let (module, rest) = line.split_once(' ')?;
        let (front, params) = rest.strip_suffix(')')?.split_once('(')?;
        let (result, name) = front.split_once(' ').unwrap_or(("int", front));
        let params = params.split(", ").filter(|param| !param.is_empty());
        Some(Self {
            module: module.to_owned(),
            result: result.to_owned(),
            name: name.to_owned(),
            params: params.map(Param::read).collect::<Option<_>>()?,
        })
    }

    /// Whether there is a large-count function, too.
    pub(crate) fn has_large(&self) -> bool {
        self.params.iter().any(|param| param.word().is_some())
    }

    /// The full names of what the line defines, each with whether it is the large-count function.
    pub(crate) fn names(&self) -> Vec<(String, bool)> {
        let mut names = vec![(format!("MPI_{}", self.name), false)];
        if self.has_large() {
            names.push((format!("MPI_{}_c", self.name), true));
        }
        names
    }
}

impl Param {
    fn read(text: &str) -> Option<Self> {
        if text == "..." {
            return Some(Self {
                ty: "...".into(),
                name: String::new(),
                array: String::new(),
            });
        }
        let at = text.find('[').unwrap_or(text.len());
        let (front, array) = text.split_at(at);
        let split = front.rfind([' ', '*'])? + 1;
        Some(Self {
            ty: front[..split].trim().to_owned(),
            name: front[split..].to_owned(),
            array: array.to_owned(),
        })
    }

    /// The word in its type.
    pub(crate) fn word(&self) -> Option<&'static (&'static str, &'static str, &'static str)> {
        WORDS
            .iter()
            .find(|(word, ..)| self.ty.split(' ').any(|part| part == *word))
    }

    /// Its type in C.
    pub(crate) fn c_type(&self, large: bool) -> String {
        match self.word() {
            Some((word, small, big)) => self.ty.replace(word, if large { big } else { small }),
            None => self.ty.clone(),
        }
    }

    /// As it stands in a prototype.
    #[allow(dead_code, reason = "the build script has no use for it")]
    pub(crate) fn declaration(&self, large: bool) -> String {
        let ty = self.c_type(large);
        let gap = if ty.ends_with('*') || self.name.is_empty() {
            ""
        } else {
            " "
        };
        format!("{ty}{gap}{}{}", self.name, self.array)
    }
}
