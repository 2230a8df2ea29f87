# A formula for a tap of Homebrew, of the archives that `make release` builds. It fills in the version and the checksums: dist/stagewise.rb.
class Stagewise < Formula
  desc "Retrains multi-class models continuously from Kafka topics or files"
  homepage "https://github.com/stagewise/stagewise"
  version "VERSION_OF_RELEASE"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "https://github.com/stagewise/stagewise/releases/download/VERSION_OF_RELEASE/stagewise-VERSION_OF_RELEASE-darwin-arm64.tar.gz"
      sha256 "SHA256_OF_DARWIN_ARM64"
    end
    on_intel do
      url "https://github.com/stagewise/stagewise/releases/download/VERSION_OF_RELEASE/stagewise-VERSION_OF_RELEASE-darwin-amd64.tar.gz"
      sha256 "SHA256_OF_DARWIN_AMD64"
    end
  end

  on_linux do
    depends_on "openblas"
    on_arm do
      url "https://github.com/stagewise/stagewise/releases/download/VERSION_OF_RELEASE/stagewise-VERSION_OF_RELEASE-linux-arm64.tar.gz"
      sha256 "SHA256_OF_LINUX_ARM64"
    end
    on_intel do
      url "https://github.com/stagewise/stagewise/releases/download/VERSION_OF_RELEASE/stagewise-VERSION_OF_RELEASE-linux-amd64.tar.gz"
      sha256 "SHA256_OF_LINUX_AMD64"
    end
  end

  def install
    bin.install "stagewise"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/stagewise.bash" => "stagewise"
    zsh_completion.install "completions/stagewise.zsh" => "_stagewise"
    fish_completion.install "completions/stagewise.fish"
  end

  test do
    assert_match "stagewise", shell_output("#{bin}/stagewise version")
    (testpath/"rows.csv").write("label,a\n" + "x,1\ny,2\n" * 50)
    (testpath/"job.yaml").write("name: job\nexamples: {train: [rows.csv], header: true, label: label}\nstages: [{}]\n")
    system bin/"stagewise", "train", "-c", "job.yaml", "--model", "job.model"
    assert_path_exists testpath/"job.model"
  end
end
